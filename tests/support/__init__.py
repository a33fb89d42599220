"""What several tests share: models, lanes, damage, helpers."""
