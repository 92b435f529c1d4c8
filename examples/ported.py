"""A LightningModule as it was, but for the import: `python examples/ported.py`."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

# from lightning import LightningDataModule, LightningModule, Trainer, seed_everything
# from lightning.pytorch.callbacks import EarlyStopping, LearningRateMonitor, ModelCheckpoint
from gpulayer.torch import (
    DataModule as LightningDataModule,
    EarlyStopping,
    LearningRateMonitor,
    ModelCheckpoint,
    Module as LightningModule,
    Trainer,
    seed_everything,
)


class Circles(LightningDataModule):
    def __init__(self, batch_size=32):
        super().__init__()
        self.save_hyperparameters()

    def setup(self, stage):
        points = torch.rand(1000, 2) * 2 - 1
        inside = (points.square().sum(1) < 0.6).long()
        self.train, self.val = random_split(TensorDataset(points, inside), [800, 200])

    def train_dataloader(self):
        return DataLoader(self.train, batch_size=self.hparams.batch_size, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.val, batch_size=200)


class Classifier(LightningModule):
    def __init__(self, hidden=32, learning_rate=0.02):
        super().__init__()
        self.save_hyperparameters()
        self.layers = nn.Sequential(nn.Linear(2, hidden), nn.ReLU(), nn.Linear(hidden, 2))
        self.example_input_array = torch.zeros(1, 2)

    def forward(self, x):
        return self.layers(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = nn.functional.cross_entropy(self(x), y)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        logits = self(x)
        self.log_dict(
            {
                "val_loss": nn.functional.cross_entropy(logits, y),
                "val_acc": (logits.argmax(dim=1) == y).float().mean(),
            },
            prog_bar=True,
        )

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=self.hparams.learning_rate)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=8)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "epoch"},
        }


if __name__ == "__main__":
    seed_everything(42, workers=True)
    best = ModelCheckpoint(monitor="val_loss", mode="min", filename="{epoch}-{val_loss:.3f}")
    trainer = Trainer(
        max_epochs=8,
        accelerator="cpu",
        devices=1,
        log_every_n_steps=10,
        callbacks=[best, EarlyStopping("val_loss", patience=3), LearningRateMonitor("epoch")],
    )
    trainer.fit(Classifier(), datamodule=Circles())
    model = Classifier.load_from_checkpoint(best.best_model_path)
    print(f"accuracy {trainer.validate(model, datamodule=Circles())[0]['val_acc']:.2f}")
