#include "serve/protocol/protocol.h"
#include "serve/protocol/http1_connection.h"
#include "serve/protocol/http2_connection.h"

bool protocol_open(struct connection *connection)
{
    if (connection->group == CONNECTION_REFUSED)
        return http1_open(connection) && http1_refuse(connection);
    return connection->from->kind == LISTENER_GRPC ||
                   (connection->tls.session != NULL && tls_is_http2(connection->tls.session))
               ? http2_open(connection, NULL, 0)
               : http1_open(connection);
}
