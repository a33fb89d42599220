"""What several tests share: models, shards, damage, helpers."""
