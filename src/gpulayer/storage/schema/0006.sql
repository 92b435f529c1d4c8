-- What a task ran in: the digest of an artifact (docs/adr/0134-provenance.md).
ALTER TABLE tasks ADD COLUMN world TEXT;
