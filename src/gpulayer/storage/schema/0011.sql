-- `max_parallel` is about tasks, of which each runs one element at a time, however many it holds
-- (docs/adr/0130-runs.md): the column without the check of `live`, which counts elements.
ALTER TABLE arrays ADD COLUMN most_tasks BIGINT;
UPDATE arrays SET most_tasks = max_parallel;
ALTER TABLE arrays DROP COLUMN max_parallel;
ALTER TABLE arrays RENAME COLUMN most_tasks TO max_parallel;
