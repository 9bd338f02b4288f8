/* The list of kernel sources: it contains every source that is compiled for several instruction sets, with its
 * instances, and the chosen instance is the one that kernels use. */
#include "cpu/sources.h"
#include "simd/move_set.h"
#include "cpu/convolution/tile_set.h"
#include "cmocka_all.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const inlay_kernel_source *source_of(const char *name)
{
    const inlay_ext_sources *all = kernel_sources();

    for (uint32_t i = 0; i < all->source_count; i++) {
        const inlay_kernel_source *source = INLAY_AT(inlay_kernel_source, all->sources, all->source_stride, i);

        if (strcmp(source->name, name) == 0)
            return source;
    }
    return NULL;
}

/* Does the file define symbols by KERNEL()? */
static bool has_instances(const char *path)
{
    FILE *file = fopen(path, "r");
    bool found = false;
    char line[512];

    assert_non_null(file);
    while (!found && fgets(line, sizeof line, file) != NULL)
        found = strstr(line, "KERNEL(") != NULL;
    (void)fclose(file);
    return found;
}

/* Is the file compiled for other architectures only? */
static bool is_of_other_cpu(const char *name)
{
    static const char *const others[] = {
#if !defined(__x86_64__)
        "nbits_block.c",
        "nbits_tiles.c",  /* AVX-512 with VNNI */
        "nbits_panels.c", /* AVX2 */
#endif
#if !defined(__aarch64__)
        "bf16.c",
        "arm64_products.c",
#endif
#if !defined(__x86_64__) && !defined(__aarch64__)
        "bytes.c",
        "bytes_window.c",
        "bytes_tiles.c",
#endif
#if !defined(SIMD_RVV)
        "riscv64_vectors.c",
#endif
    };
    bool found = false;

    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        found = found || strcmp(name, others[i]) == 0;
    return found;
}

/* Checks the sources of a folder; returns the number of sources with instances. */
static uint32_t check_folder(const char *name)
{
    const struct dirent *entry;
    char folder[4096];
    uint32_t found = 0;
    DIR *dir;

    (void)snprintf(folder, sizeof folder, "%s/%s", INLAY_SOURCE_DIR, name);
    dir = opendir(folder);
    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        const size_t bytes = strlen(entry->d_name);
        const inlay_kernel_source *source;
        char path[4096 + 256], file[4096], stem[256];

        (void)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        (void)snprintf(file, sizeof file, "%s/%s", name, entry->d_name);
        if (bytes < 3 || strcmp(entry->d_name + bytes - 2, ".c") != 0 || !has_instances(path))
            continue;
        if (is_of_other_cpu(entry->d_name))
            continue;
        (void)snprintf(stem, sizeof stem, "%.*s", (int)(bytes - 2), entry->d_name);
        source = source_of(stem);
        if (source == NULL)
            fail_msg("%s is not in the list: %s", path, "add it to kernel_instances() of CMake");
        else
            assert_string_equal(source->file, file);
        found++;
    }
    (void)closedir(dir);
    return found;
}

static void every_source_is_listed(void **state)
{
    static const char *const folders[] = {
        "providers/simd",
        "providers/common",
        "providers/operators/conv",
        "providers/operators/gemm",
        "providers/operators/panels",
        "providers/operators/recurrent",
        "providers/cpu/attention",
        "providers/cpu/convolution",
        "providers/cpu/elementwise",
        "providers/cpu/normalization",
        "providers/cpu/pooling",
        "providers/cpu/matrix",
        "providers/cpu/quantized",
        "providers/cpu/sparse",
        "providers/cpu/weights",
    };
    uint32_t found = 0;

    (void)state;
    for (size_t folder = 0; folder < sizeof folders / sizeof *folders; folder++) {
        const uint32_t found_before = found;

        found += check_folder(folders[folder]);
        assert_true(found > found_before);
    }
    assert_int_equal(kernel_sources()->source_count, found);
}

/* The chosen instance is in the list, and the CPU and the cap allow it. */
static void one_is_chosen(void **state)
{
    const inlay_ext_sources *all = kernel_sources();

    (void)state;
    for (uint32_t i = 0; i < all->source_count; i++) {
        const inlay_kernel_source *source = INLAY_AT(inlay_kernel_source, all->sources, all->source_stride, i);
        char list[128], name[64];

        if (source->chosen == NULL)
            continue;
        (void)snprintf(list, sizeof list, "|%s|", source->instances);
        (void)snprintf(name, sizeof name, "|%s|", source->chosen);
        assert_non_null(strstr(list, name));
        assert_true(cpu_has(CPU_AVX512) || strstr(source->chosen, "avx512") == NULL);
        assert_true(cpu_has(CPU_AVX2) || strstr(source->chosen, "avx") == NULL);
    }
}

#if defined(__x86_64__)
#define NAME_OF(name)                                                                                                  \
    (KERNEL_BEST(name) == &name##_avx512 ? "avx512" : KERNEL_BEST(name) == &name##_avx2 ? "avx2" : "c")
#elif defined(__aarch64__)
#define NAME_OF(name) (KERNEL_BEST(name) == &name##_neon ? "neon" : "c")
#elif defined(SIMD_RVV)
#define NAME_OF(name) (KERNEL_BEST(name) == &name##_rvv ? "rvv" : "c")
#else
#define NAME_OF(name) "c"
#endif

static void the_chosen_instance_runs(void **state)
{
    (void)state;
    assert_string_equal(source_of("tiles")->chosen, NAME_OF(tiles));
    assert_string_equal(source_of("moves")->chosen, NAME_OF(moves));
    assert_string_equal(source_of("products")->chosen, NAME_OF(products));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_source_is_listed), cmocka_unit_test(one_is_chosen),
                                        cmocka_unit_test(the_chosen_instance_runs) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
