"""A small GPT that learns the Zen of Python by its letters: `python examples/char_gpt.py`."""

import codecs
import contextlib
import io

import torch
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

import gpulayer.torch as glt

with contextlib.redirect_stdout(io.StringIO()):
    import this  # the text that every Python ships

TEXT = codecs.decode(this.s, "rot13")
LETTERS = sorted(set(TEXT))
CODES = torch.tensor([LETTERS.index(letter) for letter in TEXT])
SPAN = 32


class Windows(Dataset):
    """Every stretch of the text, and the same one letter on."""

    def __len__(self):
        return len(CODES) - SPAN

    def __getitem__(self, at):
        return CODES[at : at + SPAN], CODES[at + 1 : at + SPAN + 1]


class GPT(glt.Module):
    def __init__(self, width: int = 32, depth: int = 1, lr: float = 1e-2) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.letters = torch.nn.Embedding(len(LETTERS), width)
        self.places = torch.nn.Embedding(SPAN, width)
        block = torch.nn.TransformerEncoderLayer(
            width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.blocks = torch.nn.TransformerEncoder(block, depth, enable_nested_tensor=False)
        self.head = torch.nn.Linear(width, len(LETTERS))

    def forward(self, codes):
        length = codes.shape[1]
        held = self.letters(codes) + self.places.weight[:length]
        ahead = torch.nn.Transformer.generate_square_subsequent_mask(length, codes.device)
        return self.head(self.blocks(held, ahead, is_causal=True))

    def training_step(self, batch, batch_idx):
        codes, following = batch
        loss = functional.cross_entropy(self(codes).flatten(0, 1), following.flatten())
        self.log("loss", loss, on_epoch=True, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)

    @torch.no_grad()
    def written(self, begin: str, count: int) -> str:
        """What it finds most likely to follow."""
        codes = [LETTERS.index(letter) for letter in begin]
        for _ in range(count):
            codes.append(int(self(torch.tensor([codes[-SPAN:]]))[0, -1].argmax()))
        return "".join(LETTERS[code] for code in codes)


if __name__ == "__main__":
    glt.seed_everything(1)
    torch.set_num_threads(1)  # so small a model gains nothing from more
    trainer = glt.Trainer(max_epochs=16, accelerator="cpu", gradient_clip_val=1.0)
    model = GPT()
    trainer.fit(model, DataLoader(Windows(), 32, shuffle=True))
    print(model.eval().written("Beautiful", 40))
