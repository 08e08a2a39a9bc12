#!/bin/sh
# Compile the Java program against Apache RocketMQ's jars and let it write the golden files.
#
#   regenerate.sh JARS_DIR [OUT_DIR]        JARS_DIR defaults to $ORBITMQ_JARS, OUT_DIR to the committed bytes/
set -eu
here=$(cd "$(dirname "$0")" && pwd)
jars=${1:-${ORBITMQ_JARS:?"say where the jars are: regenerate.sh JARS_DIR [OUT_DIR]"}}
out=${2:-$here/bytes}
classes=$(mktemp -d)
trap 'rm -rf "$classes"' EXIT

javac -encoding UTF-8 -nowarn -d "$classes" -cp "$jars/*" "$here"/java/*.java
# Its libraries log to standard output; what the program has to say goes to standard error.
java -Dfile.encoding=UTF-8 -cp "$classes:$jars/*" Golden "$out" >/dev/null
