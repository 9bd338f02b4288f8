#include "remote/constants.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

isolate_constant *isolate_constant_get(isolate_constants *list, uint64_t hash, uint64_t bytes)
{
    isolate_constant *constant = list->first;

    while (constant != NULL && (constant->hash != hash || constant->bytes != bytes))
        constant = constant->next;
    if (constant == NULL) {
        constant = calloc(1, sizeof *constant);
        if (constant == NULL)
            return NULL;
        *constant = (isolate_constant){
            .next = list->first, .hash = hash, .bytes = bytes, .address = isolate_heap_alloc(list->heap, bytes)
        };
        if (constant->address == NULL) {
            free(constant);
            return NULL;
        }
        list->first = constant;
    }
    constant->references++;
    return constant;
}

void isolate_constant_put(isolate_constants *list, isolate_constant *constant)
{
    isolate_constant **link = &list->first;

    INLAY_CHECK(constant->references > 0);
    if (--constant->references > 0)
        return;
    while (*link != constant)
        link = &(*link)->next;
    *link = constant->next;
    isolate_heap_free(list->heap, constant->address, constant->bytes);
    free(constant);
}

void isolate_constant_enter(isolate_constant *constant, const void *data)
{
    constant->readers++;
    if (!constant->present)
        memcpy(constant->address, data, constant->bytes);
    constant->present = true;
}

void isolate_constant_leave(isolate_constant *constant)
{
    INLAY_CHECK(constant->readers > 0);
    constant->readers--;
}

void isolate_constants_trim(isolate_constants *list)
{
    for (isolate_constant *constant = list->first; constant != NULL; constant = constant->next)
        if (constant->readers == 0 && constant->present && isolate_heap_drops(constant->bytes)) {
            isolate_heap_drop(constant->address, constant->bytes);
            constant->present = false;
        }
}
