"""Speed, quality and parity against the peers. Not part of the wheel; run as `python -m benchmarks.NAME`.

`make bench-all` runs them in this order. `make bench` runs the quick set, the benchmarks marked so at a small size, and
writes benchmarks/RESULTS.md. Times are rough: the whole benchmark, on two cores, without a peer's environment, which is
built once. The docstring of each has what it proves. What they share is in `benchmarks.support`.

| benchmark | question | against | time | quick |
| --- | --- | --- | --- | --- |
| **Is it right?** | | | | |
| parity_pear_mt | Are PEAR's scores and matrices those of its authors? | pear-mt 1.1.1 | a minute | yes |
| compat_pear_mt | Do scripts for pear-mt run, and are choices its own where texts repeat? | pear-mt 1.1.1 | minutes | |
| parity_libraries | Do tests expect what BERTScore and MetricX-23 compute? | bert-score, Google's program | seconds | |
| released_bleurt | Does released BLEURT give Google's own numbers? | Google's tests | seconds | |
| evaluate_wmt23 | Are corpus scores those of sacrebleu, for less time? | sacrebleu | minutes | yes |
| guards | How often do guards accuse the best translation, and what do they cost? | human scores | minutes | |
| **Is it fast?** | | | | |
| speed_pear | What does the engine save at equal pairs? | pear-mt 1.1.1 | an hour or two | yes |
| limit | How near is scoring to the processor's limit, by precision? | plain products | half an hour | |
| speed_strategies | How much faster are fewer comparisons? | pear-mt 1.1.1 | half an hour | yes |
| large_lists | What do 5,000 candidates cost outside the model? | the model's own time | a minute | |
| speed_utilities | What do COMET, chrF, BLEU and TER cost? | mbrs 0.1.8 | half an hour | yes |
| recipe_cost | What do the terms of the default recipe cost? | PEAR alone with `race` | minutes | |
| batches | How many tokens should a batch of beams have? | other sizes | minutes | |
| cold_start | What does a whole process cost, for 1, 10 and 100 sources? | pear-mt, mbrs, comet-score | an hour | yes |
| speed_metaeval | What does meta-evaluation cost? | the definitions | minutes | yes |
| stream_latency | How long does a line in a pipe wait, and what does answering lines cost? | a file | minutes | yes |
| stream_memory | Does memory grow with the input? | a tenth of the input | minutes | yes |
| cluster | What do a Ray cluster's workers gain and its driver cost? | one worker, one process | half an hour | |
| load_serve | Does the service stay quick and small under load? | a batch | a quarter of an hour | |
| **Does it choose well?** | | | | |
| matrices | Makes the complete matrices that the next two replay | | a quarter of an hour | |
| strategies | How much utility do fewer comparisons lose? | half a matrix, the rules of mbrs | an hour | yes |
| calibration | Is the estimated regret true, on every family of matrices? | the exact regret | half an hour | |
| strategies_quality | How much translation quality do they lose? | every pair in both orders | minutes | |
| split_sentences | What does translating a line sentence by sentence gain? | the line as a whole | an hour | |
| compare | Which utility and strategy is worth its time? | each other, on the same lists | two hours | yes |
| **Does training a metric help?** | | | | |
| train_quality | How well do trained metrics rank? | single candidates, sentinels, length, chance | hours | |
| resume_quality | Does a small RESUME see what beats the reference? | the metric without it | an hour | |
| **How good are the bundled models?** | | | | |
| candidates | How good are the translation model's lists? | its beam's best, the oracle | minutes | |
| bundled_choice | How well does the default recipe choose? | the beam, its parts, the oracle | half an hour | |
| bundled_pear | Which damage does the bundled PEAR detect? | length | minutes | |
| released_opus | How well do terms choose with models that other people use? | the beam, the oracle | an hour | |
| **Scripts that make files, run by hand** | | | | |
| train_bundled_mt | The bundled translation models | | an hour or two | |
| train_bundled_pear | The bundled PEAR | | an hour | |
| train_coverage | The bundled word-translation table | | half a minute | |
| train_recipe | The weights of the bundled recipe | | a quarter of an hour | |
| gpu | How fast is each precision on your GPU? | plain products, the CPU | minutes | |
| demo | What `make demo` shows | | seconds | |
| picture | The matrix in the README | | seconds | |
| walk | The walk of a sentence in docs/mbr.md | | seconds | |
| transcripts | What pages show of commands, after a bundled model has changed | | minutes | |
| results | The quick set and benchmarks/RESULTS.md | | a quarter of an hour | |
"""

import os

# As the commands do (candidates.command.launch), before numpy and torch are loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
