"""Trees: what XGBoost is given of a loss and of the data."""
