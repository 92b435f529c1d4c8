-- Elements of an array that one task runs one after another (docs/adr/0130-runs.md): the index of
-- the last one beside that of the first, and how long an element takes.
ALTER TABLE tasks ADD COLUMN "last" BIGINT;
ALTER TABLE arrays ADD COLUMN pace DOUBLE PRECISION;
