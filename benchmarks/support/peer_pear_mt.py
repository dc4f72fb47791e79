"""Runs the authors' package pear-mt in its own environment. This file is executed there, not imported here.

Standard input: one JSON object with `checkpoint` and `jobs`; standard output: one JSON object with the results.
Only this file's own code and the pear-mt distribution are used on that side.
"""

import json
import sys
import time


def main():
    import torch

    torch.set_num_threads(1)
    request = json.load(sys.stdin)
    import pear

    metric = pear.load_metric(request["checkpoint"])
    results = [run(pear, metric, job) for job in request["jobs"]]
    json.dump(results, sys.stdout)


def run(pear, metric, job):
    if job.get("profile"):
        return profile(pear, metric, {**job, "profile": False})
    began = time.process_time()
    if job["kind"] == "triples":
        columns = [list(column) for column in zip(*job["triples"], strict=True)]
        scores = pear.score_pairwise(metric, *columns, batch_size=job["batch_size"], gpus=0, progress_bar=False)
        return {"scores": scores, "seconds": time.process_time() - began}
    matrices = [
        pear.pear_utility_matrix(
            metric, source, texts, mode=job["mode"], batch_size=job["batch_size"], gpus=0, progress_bar=False
        ).tolist()
        for source, texts in job["lists"]
    ]
    return {"matrices": matrices, "seconds": time.process_time() - began}


def profile(pear, metric, job):
    """Share of CPU time in preparing batches and in the encoder; the rest is the framework around them."""
    import cProfile
    import pstats

    profiler = cProfile.Profile(time.process_time)
    profiler.enable()
    run(pear, metric, job)
    profiler.disable()
    stats = pstats.Stats(profiler)
    shares = {}
    for (file, _, function), (_, _, _, cumulative, _) in stats.stats.items():
        if function == "prepare_for_inference":
            shares["tokenising and laying out"] = cumulative / stats.total_tt
        elif function == "forward" and file.endswith("encoders/xlmr.py"):
            shares["encoder"] = cumulative / stats.total_tt
    shares["framework, head, rest"] = 1 - sum(shares.values())
    return {"shares": shares}


if __name__ == "__main__":
    main()
