"""Runs an example of a docstring as the prompt of `python -m asyncio` does: `await` stands wherever one likes.

doctest finds the examples and compares what they say; it cannot await.
"""

import ast
import contextlib
import doctest
import inspect
import io
import traceback
from types import FunctionType
from typing import Any, Final

WRITTEN_URL: Final = "tcp://127.0.0.1:7878"  # as examples have it; they are run with the URL of a test's broker
FLAGS: Final = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


async def run_examples(test: doctest.DocTest, names: dict[str, Any], url: str) -> list[str]:
    """What is not as the docstring says, one text for each example; empty when all is true."""
    checker = doctest.OutputChecker()
    wrong: list[str] = []
    for number, example in enumerate(test.examples):
        if example.options.get(doctest.SKIP):
            continue
        said = (await _run(example.source.replace(WRITTEN_URL, url), f"<{test.name}[{number}]>", names)).replace(
            url, WRITTEN_URL
        )
        flags = FLAGS
        for flag, is_set in example.options.items():
            flags = flags | flag if is_set else flags & ~flag
        wanted = example.want if example.exc_msg is None else example.exc_msg
        if not checker.check_output(wanted, said, flags):
            wrong.append(f"{test.name}:\n{example.source}" + checker.output_difference(example, said, flags))
    return wrong


def run_blocking_examples(test: doctest.DocTest, names: dict[str, Any], url: str) -> list[str]:
    """The same where no event loop runs, for examples that await nothing and may start one of their own."""
    running = run_examples(test, names, url)
    try:
        running.send(None)
    except StopIteration as end:
        wrong: list[str] = end.value
        return wrong
    running.close()
    return [f"{test.name}: awaits, and has no event loop"]


async def _run(source: str, filename: str, names: dict[str, Any]) -> str:
    """What one example prints, or the last lines of what it raises."""
    output = io.StringIO()
    try:
        code = compile(source, filename, "single", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        with contextlib.redirect_stdout(output):
            result = FunctionType(code, names)()
            if inspect.isawaitable(result):
                await result
    except Exception as error:
        return output.getvalue() + "".join(traceback.format_exception_only(error))
    return output.getvalue()
