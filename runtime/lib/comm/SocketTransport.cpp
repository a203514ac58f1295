// Messages over TCP between ranks that torchrun started: where GPUs exchange what is large, what their hosts say to
// each other is little. Rank 0 listens where all know; the others tell it where they listen, it tells all, and each
// pair connects.
#include "Sockets.h"
#include "scrimp/runtime/Clock.h"
#include <arpa/inet.h>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace scrimp::runtime {

namespace {

/// Closes what it holds.
class Socket {
public:
  explicit Socket(int descriptor = -1) : descriptor(descriptor) {}
  ~Socket() { reset(); }
  Socket(Socket &&other) noexcept : descriptor(std::exchange(other.descriptor, -1)) {}
  Socket &operator=(Socket &&other) noexcept {
    reset();
    descriptor = std::exchange(other.descriptor, -1);
    return *this;
  }
  int get() const { return descriptor; }

private:
  void reset() {
    if (descriptor >= 0)
      close(descriptor);
  }
  int descriptor;
};

/// Where a rank listens, in network order.
struct Place {
  uint32_t address = 0;
  uint16_t port = 0;
};
/// What a rank says first.
struct Hello {
  uint64_t magic;
  int32_t rank, ranks;
  Place place;
};
constexpr uint64_t magic = 0x31504d5243534b53; // nobody else's

Status systemError(const char *what) { return Status::error("%s: %s", what, strerror(errno)); }

Status transferAll(int socket, void *data, size_t bytes, bool sends) {
  auto *next = static_cast<char *>(data);
  while (bytes) {
    ssize_t count = sends ? send(socket, next, bytes, MSG_NOSIGNAL) : recv(socket, next, bytes, 0);
    if (count < 0 && errno == EINTR)
      continue;
    if (count == 0)
      return Status::error("another rank has closed its connection");
    if (count < 0)
      return systemError("ranks cannot meet");
    next += count;
    bytes -= static_cast<size_t>(count);
  }
  return Status::ok();
}

/// Listens on a port, 0 for any.
Result<Socket> listenOn(uint16_t port, Place &place) {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  int yes = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  socklen_t length = sizeof(address);
  if (socket.get() < 0 || setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) ||
      bind(socket.get(), reinterpret_cast<sockaddr *>(&address), sizeof(address)) || listen(socket.get(), SOMAXCONN) ||
      getsockname(socket.get(), reinterpret_cast<sockaddr *>(&address), &length))
    return Status::error("cannot listen for the other ranks on port %u: %s", port, strerror(errno));
  place.port = address.sin_port;
  return socket;
}

/// Connects, trying until `deadline`: the other may not listen yet.
Result<Socket> connectTo(const sockaddr_in &address, double deadline) {
  for (;;) {
    Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (socket.get() < 0)
      return systemError("ranks cannot meet");
    if (connect(socket.get(), reinterpret_cast<const sockaddr *>(&address), sizeof(address)) == 0)
      return socket;
    if (now() > deadline) {
      char text[INET_ADDRSTRLEN] = "";
      inet_ntop(AF_INET, &address.sin_addr, text, sizeof(text));
      return Status::error("cannot reach another rank at %s, port %u: %s; see MASTER_ADDR and MASTER_PORT", text,
                           ntohs(address.sin_port), strerror(errno));
    }
    usleep(20000);
  }
}

Result<Socket> acceptOne(int listener, Place &from, double deadline) {
  timeval wait{std::max<time_t>(static_cast<time_t>(deadline - now()), 1), 0};
  setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
  sockaddr_in address{};
  socklen_t length = sizeof(address);
  Socket socket(accept4(listener, reinterpret_cast<sockaddr *>(&address), &length, SOCK_CLOEXEC));
  if (socket.get() < 0)
    return Status::error("not all ranks have come: %s; start as many as WORLD_SIZE says", strerror(errno));
  setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
  from.address = address.sin_addr.s_addr;
  return socket;
}

class SocketTransport final : public Transport {
public:
  SocketTransport(int rank, int ranks) : me(rank), ranks(ranks), peers(static_cast<size_t>(ranks)) {
    sends.reserve(peers.size());
    receives.reserve(peers.size());
  }

  Status meet(const std::string &host, uint16_t port, double seconds);

  const char *name() const override { return "sockets"; }
  int rank() const override { return me; }
  int size() const override { return ranks; }

  Status post(std::span<const Message> newSends, std::span<const Message> newReceives) override {
    sends.clear();
    receives.clear();
    for (const Message &message : newSends)
      sends.push_back({message, static_cast<uint64_t>(message.bytes)});
    for (const Message &message : newReceives)
      receives.push_back({message, 0});
    return Status::ok();
  }

  Result<bool> test() override {
    bool isDone = true;
    for (Part &part : sends) {
      Result<bool> done = advance(part, /*isSend=*/true);
      if (done.failed())
        return done;
      isDone &= *done;
    }
    for (Part &part : receives) {
      Result<bool> done = advance(part, /*isSend=*/false);
      if (done.failed())
        return done;
      isDone &= *done;
    }
    return isDone;
  }

  std::string pending() override {
    std::string text;
    for (const std::vector<Part> *parts : {&receives, &sends}) {
      for (const Part &part : *parts)
        if (!part.isDone())
          text += format("%srank %d", text.empty() ? "" : ", ", part.message.peer);
      if (!text.empty())
        return text;
    }
    return "another rank";
  }

  void abort(const std::string &) override { _exit(1); } // the others find its connections closed

private:
  /// A message on its way: its length, then its bytes.
  struct Part {
    Message message;
    uint64_t length;
    int64_t done = 0; // bytes, of the length too

    bool isDone() const { return done == static_cast<int64_t>(sizeof(length)) + message.bytes; }
  };

  Result<bool> advance(Part &part, bool isSend);

  const int me, ranks;
  std::vector<Socket> peers;
  std::vector<Part> sends, receives;
};

} // namespace

Status SocketTransport::meet(const std::string &host, uint16_t port, double seconds) {
  double deadline = now() + seconds;
  std::vector<Place> places(static_cast<size_t>(ranks));
  Place &mine = places[static_cast<size_t>(me)];
  Result<Socket> listener = listenOn(me ? 0 : port, mine);
  if (listener.failed())
    return listener.status();
  auto greet = [&](Socket &socket) {
    Hello hello{magic, me, ranks, mine};
    return transferAll(socket.get(), &hello, sizeof(hello), /*sends=*/true);
  };
  auto acceptPeer = [&]() -> Status {
    Place from;
    Result<Socket> socket = acceptOne(listener->get(), from, deadline);
    if (socket.failed())
      return socket.status();
    Hello hello{};
    if (Status status = transferAll(socket->get(), &hello, sizeof(hello), /*sends=*/false); status.failed())
      return status;
    if (hello.magic != magic || hello.ranks != ranks || hello.rank <= me || hello.rank >= ranks ||
        peers[static_cast<size_t>(hello.rank)].get() >= 0)
      return Status::error("on port %u something else calls than a rank of this run", port);
    places[static_cast<size_t>(hello.rank)] = {from.address, hello.place.port};
    peers[static_cast<size_t>(hello.rank)] = std::move(*socket);
    return Status::ok();
  };
  if (me) {
    addrinfo hints{}, *found = nullptr;
    hints.ai_family = AF_INET;
    hints.ai_socktype = SOCK_STREAM;
    if (int code = getaddrinfo(host.c_str(), nullptr, &hints, &found))
      return Status::error("MASTER_ADDR is '%s', which names no host: %s", host.c_str(), gai_strerror(code));
    sockaddr_in first;
    memcpy(&first, found->ai_addr, sizeof(first));
    freeaddrinfo(found);
    first.sin_port = htons(port);
    Result<Socket> socket = connectTo(first, deadline);
    if (socket.failed())
      return socket.status();
    if (Status status = greet(*socket); status.failed())
      return status;
    if (Status status = transferAll(socket->get(), places.data(), places.size() * sizeof(Place), /*sends=*/false);
        status.failed())
      return status;
    peers[0] = std::move(*socket);
    for (int rank = 1; rank < me; ++rank) {
      sockaddr_in address = first;
      address.sin_addr.s_addr = places[static_cast<size_t>(rank)].address;
      address.sin_port = places[static_cast<size_t>(rank)].port;
      Result<Socket> peer = connectTo(address, deadline);
      if (peer.failed())
        return peer.status();
      if (Status status = greet(*peer); status.failed())
        return status;
      peers[static_cast<size_t>(rank)] = std::move(*peer);
    }
  }
  for (int rank = me + 1; rank < ranks; ++rank)
    if (Status status = acceptPeer(); status.failed())
      return status;
  if (!me)
    for (int rank = 1; rank < ranks; ++rank)
      if (Status status = transferAll(peers[static_cast<size_t>(rank)].get(), places.data(),
                                      places.size() * sizeof(Place), /*sends=*/true);
          status.failed())
        return status;
  for (Socket &peer : peers) {
    int yes = 1;
    if (peer.get() < 0)
      continue;
    setsockopt(peer.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    fcntl(peer.get(), F_SETFL, fcntl(peer.get(), F_GETFL) | O_NONBLOCK);
  }
  return Status::ok();
}

Result<bool> SocketTransport::advance(Part &part, bool isSend) {
  constexpr auto header = static_cast<int64_t>(sizeof(part.length));
  int socket = peers[static_cast<size_t>(part.message.peer)].get();
  while (!part.isDone()) {
    bool inHeader = part.done < header;
    char *data =
        inHeader ? reinterpret_cast<char *>(&part.length) + part.done : part.message.data + (part.done - header);
    auto left = static_cast<size_t>(inHeader ? header - part.done : header + part.message.bytes - part.done);
    ssize_t count = isSend ? send(socket, data, left, MSG_NOSIGNAL) : recv(socket, data, left, 0);
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
      return false;
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return Status::error("rank %d has gone: %s", part.message.peer,
                           count ? strerror(errno) : "it closed its connection");
    part.done += count;
    if (!isSend && part.done == header && part.length != static_cast<uint64_t>(part.message.bytes))
      return Status::error("rank %d sends %llu bytes where rank %d expects %lld", part.message.peer,
                           (unsigned long long)part.length, me, (long long)part.message.bytes);
  }
  return true;
}

Result<std::unique_ptr<Transport>> connectSockets(const Launch &launch) {
  constexpr double patience = 120;
  const char *host = getenv("MASTER_ADDR"), *port = getenv("MASTER_PORT");
  int number = port ? atoi(port) : 0;
  if (!host || number < 1 || number > 65534)
    return Status::error("RANK and WORLD_SIZE are set, but not MASTER_ADDR and MASTER_PORT, by which ranks find each "
                         "other; start them with torchrun, or with mpirun -n %d",
                         launch.size);
  auto transport = std::make_unique<SocketTransport>(launch.rank, launch.size);
  // torchrun's own store has the port itself.
  if (Status status = transport->meet(host, static_cast<uint16_t>(number + 1), patience); status.failed())
    return status;
  return std::unique_ptr<Transport>(std::move(transport));
}

} // namespace scrimp::runtime
