"""Runs mbrs in its own environment. This file is executed there, not imported here.

Standard input: one JSON object with `jobs`, each {metric: comet | chrf | bleu | ter, decoder: exact | aggregate,
checkpoint (of comet: a COMET folder), lists: [{source, candidates}], warm_up: such a list, or none}; standard output: a
JSON list with the results. Only this file's own code and the mbrs distribution are used on that side, as its users do:
the candidates are the pseudo-references, each its own included, and duplicates count.

Settings beyond mbrs's defaults, all in its favour or needed for one thread on a CPU: chrF by its Rust extension
(`fastchrf`), one worker instead of eight for BLEU and TER (`num_workers`; each list starts the workers anew), COMET on
the CPU. One adaptation: its COMET asks the hub for a model by name, a local folder's path is no such name, so the
function that downloads is replaced by one that returns the folder's checkpoint.
"""

import json
import resource
import sys


def main():
    import torch

    torch.set_num_threads(1)
    request = json.load(sys.stdin)
    json.dump([run(job) for job in request["jobs"]], sys.stdout)


def run(job):
    decoder = open_decoder(job)
    if "warm_up" in job:
        decode(decoder, job["warm_up"])
    loaded = peak_memory()
    return {"decisions": [decode(decoder, item) for item in job["lists"]], "loaded": loaded, "peak": peak_memory()}


def open_decoder(job):
    from mbrs.decoders import get_decoder
    from mbrs.metrics import comet, get_metric

    settings = {"chrf": {"fastchrf": True}, "bleu": {"num_workers": 1}, "ter": {"num_workers": 1}}
    if job["metric"] == "comet":
        comet.download_model = "{}/checkpoints/model.ckpt".format
        settings["comet"] = {"model": job["checkpoint"], "cpu": True}
    metric = get_metric(job["metric"])
    kind = get_decoder({"exact": "mbr", "aggregate": "aggregate_mbr"}[job["decoder"]])
    return kind(kind.Config(), metric(metric.Config(**settings[job["metric"]])))


def decode(decoder, item):
    texts = item["candidates"]
    began = cpu_seconds()
    # nbest is the number of candidates, so that mbrs returns the expected scores of all.
    output = decoder.decode(texts, texts, item["source"], nbest=len(texts))
    seconds = cpu_seconds() - began
    scores = [score for _, score in sorted(zip(output.idx, output.score, strict=True))]
    return {"index": output.idx[0], "text": output.sentence[0], "expected": scores, "seconds": seconds}


def cpu_seconds():
    """CPU seconds of this process and of the workers it waited for, which score BLEU and TER."""
    usages = [resource.getrusage(scope) for scope in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def peak_memory():
    """Peak resident memory in MiB, on Linux."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
