"""The JSON Schema of `JobSpec`, for editors and `gpulayer schema`.

It is shipped as `jobspec.schema.json`, so that nobody needs pydantic to read it. To write it anew:
`python -m gpulayer.contracts.schema > src/gpulayer/contracts/jobspec.schema.json`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from gpulayer.contracts.jobspec import JobSpec


def jobspec_schema() -> dict[str, Any]:
    """Draft 2020-12. Rules over several fields are `validate_spec`'s; a schema cannot say them."""
    schema = JobSpec.model_json_schema()
    for kind in ("CommandJob", "FunctionJob", "DistributedJob"):
        definition = schema["$defs"][kind]
        definition["required"] = ["kind", *definition.get("required", ())]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def schema_text() -> str:
    return json.dumps(jobspec_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema_text())
