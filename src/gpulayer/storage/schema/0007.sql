-- Jobs whose result may be given for the same call again (docs/adr/0134-provenance.md).
ALTER TABLE jobs ADD COLUMN call_key TEXT;
CREATE INDEX jobs_by_call ON jobs (call_key, seq) WHERE call_key IS NOT NULL;
