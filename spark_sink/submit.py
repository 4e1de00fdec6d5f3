"""`rsocket-broker pipeline …` for spark-submit, which wants a file: the master and its settings come from there.

spark-submit --master spark://host:7077 --py-files rsocket_broker.zip submit.py run --events … --tables …
"""

from spark_sink.cli import pipeline

if __name__ == "__main__":
    pipeline()
