/* What surrounds calls of the library: its threads, and its failures. */
#include "inlay/check.h"
#include "onednn/provider.h"

/* Functions of libgomp, which libdnnl uses. */
extern void omp_set_num_threads(int threads);
extern int omp_get_max_threads(void);

int threads_set(int threads)
{
    const int before = omp_get_max_threads();

    INLAY_CHECK(threads > 0);
    if (before != threads)
        omp_set_num_threads(threads);
    return before;
}

inlay_status onednn_fail(dnnl_status_t code, const char *node, inlay_diag *diag)
{
    if (code == dnnl_out_of_memory)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "node '%s': no memory for a kernel of oneDNN", node);
    if (code == dnnl_unimplemented || code == dnnl_invalid_arguments)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "node '%s': oneDNN has no fast kernel for these sizes", node);
    return inlay_fail(diag, INLAY_INTERNAL, "node '%s': oneDNN failed (status %d)", node, (int)code);
}
