/* Any bytes as the body of a gRPC call, a sequence of messages with a prefix each: the call must end with a status. The
 * first byte selects the method, the second the size of the pieces in which the bytes arrive. */
#include "grpc_fake.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void receive(void *user, const uint8_t *data, size_t bytes)
{
    fake_client *client = user;

    if (nghttp2_session_mem_recv(client->session, data, bytes) != (ssize_t)bytes)
        __builtin_trap(); /* the server violates HTTP/2 */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static fake_link link;
    fake_client client;
    const uint8_t *out;
    ssize_t n;

    if (bytes < 2 || !fake_open(&link))
        return 0;
    if (fake_client_open(&client, data, bytes)) {
        fake_send(&link, receive, &client);
        while ((n = nghttp2_session_mem_send(client.session, &out)) > 0) {
            if (!fake_receive(&link, out, (size_t)n))
                __builtin_trap(); /* the client conforms to HTTP/2 */
            fake_send(&link, receive, &client);
        }
        if (!client.has_status)
            __builtin_trap(); /* a call without a status */
    }
    nghttp2_session_del(client.session);
    fake_close(&link);
    return 0;
}
