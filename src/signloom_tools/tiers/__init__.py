"""What can be seen in a film of signing without a model: events in tiers, and a picture of them."""
