/* Constant weights in the layouts of kernels. Each is packed once and shared by all shapes of a group. */
#include "onednn/provider.h"
#include "inlay/check.h"

/* Identifies the contents of a pack: the weights, the slice of them, and both layouts. 0: the contents have no content
 * hash. */
static uint64_t make_key(const pack_source *source, int64_t offset, library_const_layout plain,
                         library_const_layout wanted, int64_t *key)
{
    uint32_t count = 2, more;

    memcpy(&key[0], &source->hash, sizeof key[0]);
    key[1] = offset;
    more = library_layout_words(plain, key + count);
    if (more == 0)
        return 0;
    count += more;
    more = library_layout_words(wanted, key + count);
    return more == 0 ? 0 : (count + more) * sizeof *key;
}

static dnnl_status_t reorder(dnnl_engine_t engine, library_const_layout plain, const float *data,
                             library_const_layout wanted, void *target)
{
    dnnl_primitive_desc_t description = NULL;
    dnnl_primitive_t primitive = NULL;
    dnnl_memory_t from = NULL, to = NULL;
    dnnl_stream_t stream = NULL;
    dnnl_status_t code = dnnl_reorder_primitive_desc_create(&description, plain, engine, wanted, engine, NULL);

    if (code == dnnl_success)
        code = dnnl_primitive_create(&primitive, description);
    if (code == dnnl_success)
        code = dnnl_memory_create(&from, plain, engine, (void *)(uintptr_t)data);
    if (code == dnnl_success)
        code = dnnl_memory_create(&to, wanted, engine, target);
    if (code == dnnl_success)
        code = dnnl_stream_create(&stream, engine, dnnl_stream_default_flags);
    if (code == dnnl_success)
        code = dnnl_primitive_execute(primitive, stream, 2,
                                      (const dnnl_exec_arg_t[]){ { DNNL_ARG_FROM, from }, { DNNL_ARG_TO, to } });
    if (code == dnnl_success)
        code = dnnl_stream_wait(stream);
    if (stream != NULL)
        (void)dnnl_stream_destroy(stream);
    if (to != NULL)
        (void)dnnl_memory_destroy(to);
    if (from != NULL)
        (void)dnnl_memory_destroy(from);
    if (primitive != NULL)
        (void)dnnl_primitive_destroy(primitive);
    if (description != NULL)
        (void)dnnl_primitive_desc_destroy(description);
    return code;
}

weights_pack *pack_find(inlay_compiled *compiled, uint32_t part)
{
    weights_pack *pack;

    (void)pthread_mutex_lock(&compiled->lock);
    for (pack = compiled->packs; pack != NULL && pack->part != part;)
        pack = pack->next;
    if (pack != NULL)
        pack->users++;
    (void)pthread_mutex_unlock(&compiled->lock);
    return pack;
}

static void pack_destroy(weights_pack *pack)
{
    library_layout_destroy(pack->layout);
    kit_pack_free(&pack->memory);
    free(pack);
}

void pack_release(inlay_compiled *compiled, weights_pack *pack)
{
    weights_pack **at = &compiled->packs;
    bool unused;

    (void)pthread_mutex_lock(&compiled->lock);
    INLAY_CHECK(pack->users > 0);
    unused = --pack->users == 0 && pack->late;
    while (unused && *at != pack)
        at = &(*at)->next;
    if (unused)
        *at = pack->next;
    (void)pthread_mutex_unlock(&compiled->lock);
    if (unused)
        pack_destroy(pack);
}

inlay_status pack_make(const onednn_state *state, inlay_compiled *compiled, const pack_source *source, uint32_t part,
                       library_const_layout plain, const float *data, library_const_layout wanted, weights_pack **out,
                       inlay_diag *diag)
{
    weights_pack *pack = calloc(1, sizeof *pack);
    int64_t key[2 + 2 * LIBRARY_LAYOUT_WORDS];
    inlay_status status = INLAY_OK;
    dnnl_status_t code;
    uint64_t key_bytes;

    *out = NULL;
    INLAY_CHECK(data != NULL);
    if (pack == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for packed weights");
    pack->part = part;
    pack->users = 1;
    pack->late = source == NULL;
    key_bytes = source == NULL ? 0 : make_key(source, data - compiled->constants[OPERAND_WEIGHTS], plain, wanted, key);
    code = library_layout_copy(wanted, &pack->layout);
    if (code != dnnl_success) {
        status = onednn_fail(code, compiled->group.name, diag);
        goto done;
    }
    INLAY_TRY(kit_pack_take(source != NULL ? &source->node : NULL, key, key_bytes, dnnl_memory_desc_get_size(wanted),
                            &pack->memory, diag));
    if (!pack->memory.filled) {
        code = reorder(state->engine, plain, data, wanted, pack->memory.data);
        if (code != dnnl_success) {
            status = onednn_fail(code, compiled->group.name, diag);
            goto done;
        }
        if (source != NULL)
            kit_pack_keep(&source->node, &pack->memory);
    }
    (void)pthread_mutex_lock(&compiled->lock);
    pack->next = compiled->packs;
    compiled->packs = pack;
    (void)pthread_mutex_unlock(&compiled->lock);
    *out = pack;
    pack = NULL;
done:
    if (pack != NULL)
        pack_destroy(pack);
    return status;
}

void packs_destroy(inlay_compiled *compiled)
{
    while (compiled->packs != NULL) {
        weights_pack *next = compiled->packs->next;

        pack_destroy(compiled->packs);
        compiled->packs = next;
    }
}
