"""What several commands have in common: options, and the end of their help."""

from typing import Annotated

import typer

EPILOG = (
    "Exit status: 0 done; 1 the run ended in an error; 2 wrong usage, nothing was started; "
    "3 a needed part is not installed; 130 stopped by Ctrl-C; 143 stopped by SIGTERM."
)

Json = Annotated[bool, typer.Option("--json", help="One JSON object a line on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show nothing while it goes on.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
