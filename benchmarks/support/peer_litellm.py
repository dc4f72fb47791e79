"""litellm against a running service, in an environment of its own: reads {"address", "key"}, prints what came back.

Each route of litellm that speaks one of our APIs: cohere, jina_ai, hosted_vllm, huggingface (that of TEI).
"""

import json
import os
import sys

os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", LITELLM_TELEMETRY="False")

import litellm

ROUTES = {
    "cohere": "",
    "jina_ai": "/v1/rerank",
    "hosted_vllm": "/v1/rerank",
    "huggingface": "",
}


def main():
    request = json.load(sys.stdin)
    answers = []
    for route, path in ROUTES.items():
        answer = litellm.rerank(
            model=f"{route}/{request['model']}",
            query=request["query"],
            documents=request["documents"],
            top_n=len(request["documents"]),
            api_base=request["address"] + path,
            api_key=request["key"],
        )
        results = [[result["index"], result["relevance_score"]] for result in answer.results]
        answers.append({"route": route, "results": results})
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
