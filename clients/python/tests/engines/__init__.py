"""What the tests of the durable engines are made of."""
