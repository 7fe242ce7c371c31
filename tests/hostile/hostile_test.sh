#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A third of a minute of each lie, beside an innocent client: made from the table of commands, changed when they are posted, of queues and bells, of
# appetite. No worker crashes, the bridge lives, no other client notices but by the time it takes, and in the end nothing is lost. SOAK: `make soak`.
cd "$(dirname "$0")/../.." || exit 1
build=${BUILD:-build} device=${DEVICE:-soft}
crash=; [ "$device" = soft ] || crash=--may-crash
exec tests/hostile/campaign --build "$build" --device "$device" $crash --structured 40000 --flip 7000 --ring 2000 --eat 27000 --seconds 20 \
    --seed "${SEED:-1}" -- --client-device-memory 512M
