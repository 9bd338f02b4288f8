/* Checks the layout of the public structs. The compiler compares them with layout.def; the program finds holes. A hole,
 * or padding at the end, may differ between compilers or versions. */
#include "inlay/extensions.h"
#include "inlay/inlay.h"
#include "inlay/plugin.h"
#include "inlay/text.h"
#include <stdio.h>
#include <string.h>

#define VALUE(constant, number) _Static_assert((constant) == (number), #constant " has changed");
#define STRUCT(type, bytes) _Static_assert(sizeof(type) == (bytes), #type " has another size");
#define FIELD(type, field, offset, bytes)                                                                              \
    _Static_assert(offsetof(type, field) == (offset), #type "." #field " has moved");                                  \
    _Static_assert(sizeof(((type *)0)->field) == (bytes), #type "." #field " has another size");
#include "layout.def"
#undef VALUE
#undef STRUCT
#undef FIELD

static const struct row {
    const char *type, *field; /* field NULL: the struct itself */
    size_t offset, bytes;
} rows[] = {
#define VALUE(constant, number)
#define STRUCT(type, bytes) { #type, NULL, 0, bytes },
#define FIELD(type, field, offset, bytes) { #type, #field, offset, bytes },
#include "layout.def"
#undef VALUE
#undef STRUCT
#undef FIELD
};

int main(void)
{
    const size_t count = sizeof rows / sizeof rows[0];
    int bad = 0;

    for (size_t i = 0; i < count;) {
        const struct row *type = &rows[i++];
        size_t end = 0;

        for (; i < count && rows[i].field != NULL; i++) {
            if (strcmp(rows[i].type, type->type) != 0 || rows[i].offset != end) {
                printf("%s.%s: offset %zu, but the field before it ends at %zu\n", rows[i].type, rows[i].field,
                       rows[i].offset, end);
                bad++;
            }
            end = rows[i].offset + rows[i].bytes;
        }
        if (end != type->bytes) {
            printf("%s: %zu bytes, but its fields end at %zu: padding, or a field without a row\n", type->type,
                   type->bytes, end);
            bad++;
        }
    }
    printf("%zu rows, %d wrong\n", count, bad);
    return bad != 0;
}
