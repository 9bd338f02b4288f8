#include "cpu/sources.h"
#include "inlay/check.h"
#include "simd/instances.h"
#include <pthread.h>
#include <stdio.h>

enum {
#define NUMBER(name, runs) NUMBER_##name,
    KERNEL_INSTANCE_LIST(NUMBER)
#undef NUMBER
        NUMBER_COUNT
};

/* CMake generates sources.def: one line SOURCE(name, file, INSTANCE(level) ...) for each source file. */
#define INSTANCE(name) | 1u << NUMBER_##name
static const struct {
    const char *name, *file;
    unsigned instances;
} rows[] = {
#define SOURCE(name, file, instances) { #name, file, 0 instances },
#include "sources.def"
#undef SOURCE
};

enum { ROW_COUNT = sizeof rows / sizeof rows[0], TEXT_BYTES = 80 };
static inlay_kernel_source sources[ROW_COUNT];
static char texts[ROW_COUNT][TEXT_BYTES];

static void fill(void)
{
    const struct {
        const char *name;
        bool runs;
    } all[] = {
#define ROW(name, runs) { #name, runs },
        KERNEL_INSTANCE_LIST(ROW)
#undef ROW
    };

    for (int i = 0; i < ROW_COUNT; i++) {
        const char *chosen = NULL;
        size_t used = 0;

        for (int k = 0; k < NUMBER_COUNT; k++) {
            if ((rows[i].instances >> k & 1) == 0)
                continue;
            used += (size_t)snprintf(texts[i] + used, TEXT_BYTES - used, "%s%s", used > 0 ? "|" : "", all[k].name);
            INLAY_CHECK(used < TEXT_BYTES);
            if (all[k].runs && chosen == NULL)
                chosen = all[k].name;
        }
        sources[i] = (inlay_kernel_source){ rows[i].name, rows[i].file, texts[i], chosen };
    }
}

const inlay_ext_sources *kernel_sources(void)
{
    static const inlay_ext_sources all = {
        .struct_size = sizeof all, .sources = sources, .source_count = ROW_COUNT, .source_stride = sizeof sources[0]
    };
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, fill);
    return &all;
}
