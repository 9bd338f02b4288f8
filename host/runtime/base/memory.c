#include "base/memory.h"
#include "base/checked.h"
#include "inlay/check.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

size_t list_room(size_t count)
{
    if (count <= 4)
        return count > 0 ? 4 : 0;
    return count > SIZE_MAX / 2 ? SIZE_MAX : (size_t)1 << (64 - __builtin_clzll(count - 1));
}

bool list_reserve(void *list_address, size_t count, size_t more, size_t item_bytes)
{
    size_t wanted = count, bytes;
    void *list, *larger;

    INLAY_CHECK(item_bytes > 0);
    if (!add_size(&wanted, more))
        return false;
    bytes = list_room(wanted);
    if (bytes == list_room(count))
        return true;
    memcpy(&list, list_address, sizeof list);
    if (!mul_size(&bytes, item_bytes) || (larger = realloc(list, bytes)) == NULL)
        return false;
    memcpy(list_address, &larger, sizeof larger);
    return true;
}

inlay_status no_memory(inlay_diag *diag, const char *purpose, ...)
{
    char text[sizeof diag->text];
    va_list args;

    va_start(args, purpose);
    (void)vsnprintf(text, sizeof text, purpose, args);
    va_end(args);
    return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory %s", text);
}

bool is_shortage(const char *message)
{
    return strstr(message, strerror(EMFILE)) != NULL || strstr(message, strerror(ENFILE)) != NULL;
}
