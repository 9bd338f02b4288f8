/* serve/base/chain.h - doubly linked lists through two fields of their items; the caller holds the lock. */
#ifndef SERVE_CHAIN_H
#define SERVE_CHAIN_H
#include <stddef.h>

#define CHAIN_ADD(head, item, next, previous)                                                                          \
    do {                                                                                                               \
        (item)->previous = NULL;                                                                                       \
        (item)->next = (head);                                                                                         \
        if ((item)->next != NULL)                                                                                      \
            (item)->next->previous = (item);                                                                           \
        (head) = (item);                                                                                               \
    } while (0)

#define CHAIN_REMOVE(head, item, next, previous)                                                                       \
    do {                                                                                                               \
        if ((item)->previous != NULL)                                                                                  \
            (item)->previous->next = (item)->next;                                                                     \
        else                                                                                                           \
            (head) = (item)->next;                                                                                     \
        if ((item)->next != NULL)                                                                                      \
            (item)->next->previous = (item)->previous;                                                                 \
    } while (0)
#endif
