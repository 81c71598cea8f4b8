"""Records anew what LangChain calls in typical cases, and what our handler makes of it: `make callbacks`, or
`python -m tests.langchain.record_callbacks CASE …`. Look at the difference before you keep it.
"""

from __future__ import annotations

import sys

from tests.langchain.callback_cases import CASES
from tests.langchain.callback_streams import FOLDER, as_text, record, spans_of


def main(names: list[str]) -> None:
    """Write the stream and the spans of these cases, or of all."""
    for name in names or CASES:
        stream = FOLDER / f"{name}.jsonl"
        stream.write_text(record(CASES[name]))
        stream.with_suffix(".spans.json").write_text(as_text(spans_of(stream)))
        print(stream.name)


if __name__ == "__main__":
    main(sys.argv[1:])
