"""Judgments by people and by language models: rated, merged, and compared with one another.

- `sheets`: the pairs of query and document of a grading sheet; `ratings`: what a rater says of
  them, as lines of JSON, and the judgment reader of these
- `page`: the page on which people grade a sheet, as a file or served
- `asking`: a language model as a rater, and the canaries that show what sways it
- `votes`: who gave which grade, out of lists of any format; `merge` and `agree` read them
- `push`: judgments, query sets and rankers into OpenSearch's Search Relevance Workbench
"""
