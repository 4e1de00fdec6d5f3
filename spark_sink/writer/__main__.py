"""`python -m spark_sink.writer` is the writer of event files, see `process`."""

from spark_sink.writer.process import main

main()
