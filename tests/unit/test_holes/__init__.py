"""The holes of issue 9, item 3: what happens to a user in each of them, over a broker and a lake in memory."""
