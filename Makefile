# The two commands. Both take further arguments: make run ARGS='-p "Hello"', make test ARGS='-p taper-server'.

.PHONY: run test

run:
	@scripts/run $(ARGS)

test:
	@scripts/test $(ARGS)
