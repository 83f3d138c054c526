"""``python -m ticdc_spark``: the same as the command ``ticdc-spark``."""

from ticdc_spark.cli import main

if __name__ == "__main__":
    main()
