"""What users do, as judgments: events counted, click models fitted, documents graded.

- options, columns: what is asked, and which column says what; reading, json_blocks: files, a
  batch at a time; times: from when to when
- texts, events, account: rows of numbers, and what became of every event
- spool, views, counting: rows by person → what was shown and clicked, counted
- priors: how rates vary; models: chosen on people held out
- grading, judging: what is attractive, as grades and weights
- srw: the figures of Search Relevance Workbench
"""
