"""Files: text in, whole files out, JSON lines, strict JSON."""
