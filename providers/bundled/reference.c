/* The operators of a bundled program: the operators of the provider reference, and of the provider cpu outside of
 * regions. */
#include "inlay/check.h"
#include "bundled/bundled.h"
#include "operators/operator_settings.h"
#include "cpu/operators/operators.h"
#include "simd/cpu.h"
#include "simd/cpu_plain.h"
#include <stdlib.h>

enum { MOST_TABLES = 256 };

static const kit_table *in_use[MOST_TABLES]; /* a node is run by the first table that has a kernel for it */

static uint32_t add_tables(uint32_t count, const kit_table *const *list)
{
    for (; *list != NULL && count < MOST_TABLES; list++)
        in_use[count++] = *list;
    INLAY_CHECK(*list == NULL);
    return count;
}

static inlay_provider provider, operators_provider;

/* Compiles a node. The plan may contain offers of the provider cpu for nodes outside of regions; the cookies of such
 * offers have the additional flag CPU_COOKIE_OPERATOR, which is removed. */
static inlay_status compile(void *state, const inlay_compile_request *request, inlay_compiled **out_compiled,
                            inlay_diag *diag)
{
    inlay_compile_request own = *request;
    const uint64_t cookie = request->offer_count > 0 ? request->cookies[0] & ~CPU_COOKIE_OPERATOR : 0;

    own.cookies = &cookie;
    INLAY_CHECK(operators_provider.compile != NULL);
    return operators_provider.compile(state, &own, out_compiled, diag);
}

/* In a program with uniform kernels, this provider computes as the plugin reference does, with kernels of the
 * baseline. */
static inlay_status compile_plain(void *state, const inlay_compile_request *request, inlay_compiled **out_compiled,
                                  inlay_diag *diag)
{
    inlay_status status;

    cpu_run_plain(true);
    status = compile(state, request, out_compiled, diag);
    cpu_run_plain(false);
    return status;
}

static inlay_status specialize_plain(void *state, inlay_compiled *compiled, inlay_specialize_request *request,
                                     inlay_instance **out_instance, inlay_diag *diag)
{
    inlay_status status;

    cpu_run_plain(true);
    status = operators_provider.specialize(state, compiled, request, out_instance, diag);
    cpu_run_plain(false);
    return status;
}

static inlay_status execute_plain(void *state, inlay_compiled *compiled, inlay_instance *instance,
                                  const inlay_exec_args *args)
{
    inlay_status status;

    cpu_run_plain(true);
    status = operators_provider.execute(state, compiled, instance, args);
    cpu_run_plain(false);
    return status;
}

const inlay_provider *bundled_reference(const inlay_host *host, const bundled_tables *tables)
{
    static kit_provider operators = {
        .name = "reference", .description = "", .tables = in_use, .open = operator_settings_open, .close = free
    };
    const bool uniform = bundle_use_uniform();
    uint32_t count = 0;

    (void)host;
#if defined(__x86_64__)
    if (!uniform && cpu_has(CPU_AVX2))
        count = add_tables(count, cpu_has(CPU_AVX512) ? tables->avx512 : tables->avx2);
#elif defined(__aarch64__) || defined(__wasm__)
    if (!uniform)
        count = add_tables(count, tables->only);
#endif
    operators.table_count = add_tables(count, tables->plain);
    operators_provider = provider = kit_describe_provider(&operators);
    provider.compile = uniform ? compile_plain : compile;
    provider.specialize = uniform ? specialize_plain : provider.specialize;
    provider.execute = uniform ? execute_plain : provider.execute;
    return &provider;
}
