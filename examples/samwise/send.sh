#!/bin/sh
# Hands each line of standard input over to a Samwise gateway, as an order of the shop SHOP.
#
#     SAMWISE_ENDPOINT=ipc:///run/rsocket-broker/samwise SHOP=paris sh send.sh < orders.txt
#
# While nobody answers (status 6) it tries again, and an order may come twice then. It ends at one that is refused (4).
while IFS= read -r order; do
    until printf %s "$order" | rsocket-broker samwise publish --exchange orders --routing-key create \
        --option content_type=text/plain --header "shop=${SHOP:-nowhere}" --data -; do
        [ $? -eq 6 ] || exit 4
        sleep 1
    done
done
