"""What lies in the files of a table: what is live, where a key lies, and files written by tasks."""
