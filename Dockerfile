# The service on CPUs: small, without root, with the bundled models inside; it needs no network.
#
#   docker build -t mbr-decode .
#
# torch is its build for CPUs, without the CUDA libraries; `--build-arg TORCH_BACKEND=auto` lets uv choose another.
# The other commands are in the image as well:
#   docker run -i --rm --entrypoint mbr-decode mbr-decode --nbest 20 < text.txt

FROM python:3.12-slim AS build
ARG TORCH_BACKEND=cpu
RUN python -m venv /opt/mbr
ENV PATH=/opt/mbr/bin:$PATH
WORKDIR /src
COPY constraints/light.txt constraints/light.txt
# uv knows where the builds of torch for a back-end are; it stays out of the image.
RUN python -m venv /opt/uv \
    && /opt/uv/bin/pip install --no-cache-dir uv==0.13.6 \
    && /opt/uv/bin/uv pip install --no-cache --python /opt/mbr/bin/python --torch-backend "$TORCH_BACKEND" \
       -c constraints/light.txt torch
COPY pyproject.toml setup.cfg README.md LICENSE ./
COPY candidates candidates
COPY pear pear
COPY mbr mbr
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels . \
    && wheel="$(echo /wheels/mbr_decode-*.whl)" \
    && pip install --no-cache-dir -c constraints/light.txt "${wheel}[serve]"

FROM python:3.12-slim
COPY --from=build /opt/mbr /opt/mbr
ENV PATH=/opt/mbr/bin:$PATH HF_HUB_OFFLINE=1 PYTHONUNBUFFERED=1
RUN useradd --uid 10001 --create-home mbr
USER 10001
WORKDIR /home/mbr
# An image whose models do not work is not built.
RUN echo "Good day." > check.txt && mbr-decode --sources check.txt --nbest 2 && rm check.txt
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8080/ready', timeout=4)"]
ENTRYPOINT ["mbr-serve"]
CMD ["--host", "0.0.0.0", "--port", "8080", "--api-key-file", "/run/secrets/mbr-keys"]
