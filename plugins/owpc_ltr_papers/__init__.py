"""The papers' protocols, end to end: published figures beside ours, on the reader's own LETOR."""
