"""XGBoost's trees, in memory, over parts and by workers."""
