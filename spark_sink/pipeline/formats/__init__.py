"""What a folder of tables is: plain files of Parquet (`plain`), or tables of Delta (`delta`).

    <tables>/_checkpoints/format     `parquet` or `delta`, as the first start has said

The two differ in when a file is in its table: as soon as it lies in the folder, or when the log of the table says so.
So here are the few steps that publish files, take some away, and tell which are there.
"""
