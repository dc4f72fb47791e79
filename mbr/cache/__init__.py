"""What is kept between runs: scores, logs of a budget, judgements."""
