"""The papers' protocols and risk bounds on LETOR."""
