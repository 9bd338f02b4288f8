/* Streams of a device: a library whose factory is aware of streams submits copies and kernels to one, and may return
 * before they are done. A region has one stream, so its runs do not overlap. Regions wait for their stream before they
 * return, since other providers read their outputs in host memory. */
#include "ort_ep/provider.h"
#include <stdlib.h>

struct OrtSyncStream {
    OrtSyncStreamImpl *impl;
    uint64_t runs; /* runs that have been waited for */
};

OrtStatus *ep_stream_create(OrtEp *ep, const OrtEpDevice *device, OrtSyncStream **out)
{
    OrtEpFactory *factory = device->factory;
    const OrtMemoryDevice *memory = ort_MemoryInfo_GetMemoryDevice(device->memory);
    OrtSyncStreamImpl *impl = NULL;

    *out = NULL;
    if (factory->IsStreamAware == NULL || !factory->IsStreamAware(factory))
        return NULL;
    if (ep->CreateSyncStreamForDevice != NULL)
        ORT_TRY(ep->CreateSyncStreamForDevice(ep, memory, &impl));
    else if (factory->CreateSyncStreamForDevice != NULL)
        ORT_TRY(factory->CreateSyncStreamForDevice(factory, memory, NULL, &impl));
    if (impl == NULL)
        return NULL;
    *out = calloc(1, sizeof **out);
    if (*out == NULL) {
        impl->Release(impl);
        return ort_no_memory();
    }
    (*out)->impl = impl;
    return NULL;
}

void ep_stream_release(OrtSyncStream *stream)
{
    if (stream == NULL)
        return;
    stream->impl->Release(stream->impl);
    free(stream);
}

OrtStatus *ep_stream_wait(OrtSyncStream *stream)
{
    OrtStatus *failed = NULL;

    if (stream == NULL)
        return NULL;
    if (stream->impl->Flush != NULL)
        failed = stream->impl->Flush(stream->impl);
    stream->runs++;
    if (failed == NULL && stream->impl->OnSessionRunEnd != NULL)
        failed = stream->impl->OnSessionRunEnd(stream->impl);
    return failed;
}

void *ort_SyncStream_GetHandle(OrtSyncStream *stream)
{
    return stream != NULL && stream->impl->GetHandle != NULL ? stream->impl->GetHandle(stream->impl) : NULL;
}

const OrtSyncStreamImpl *ort_SyncStream_GetImpl(const OrtSyncStream *stream)
{
    return stream != NULL ? stream->impl : NULL;
}

/* As in ONNX Runtime, a number that grows with each wait of the host for the stream; never 0. */
uint64_t ort_SyncStream_GetSyncId(const OrtSyncStream *stream)
{
    return stream != NULL ? stream->runs + 1 : 0;
}

/* Streams of different regions never wait for each other. */
uint64_t ort_GetSyncIdForLastWaitOnSyncStream(const OrtSyncStream *producer_stream,
                                              const OrtSyncStream *consumer_stream)
{
    (void)producer_stream, (void)consumer_stream;
    return 0;
}
