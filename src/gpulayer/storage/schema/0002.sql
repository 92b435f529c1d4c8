-- Two machines by one worker's name: where the worker is, who waits to follow it, and where it was
-- sent away from (control_plane/lifecycle/succession.py).
ALTER TABLE workers ADD COLUMN place TEXT NOT NULL DEFAULT '';
ALTER TABLE workers ADD COLUMN heir TEXT NOT NULL DEFAULT '';
ALTER TABLE workers ADD COLUMN replaced TEXT NOT NULL DEFAULT '[]';
