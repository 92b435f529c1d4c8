-- What the preparation of a task took: {seconds, steps: [{name, seconds, note}]}, as JSON.
ALTER TABLE tasks ADD COLUMN preparation TEXT;
