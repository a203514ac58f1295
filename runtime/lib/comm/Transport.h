// How messages get from rank to rank: what communicators differ in. MessageCommunicator makes collectives of it.
#ifndef SCRIMP_RUNTIME_LIB_COMM_TRANSPORT_H
#define SCRIMP_RUNTIME_LIB_COMM_TRANSPORT_H

#include "scrimp/runtime/Communicator.h"

namespace scrimp::runtime {

/// One message to or from another rank; never empty, at most Transport::mostBytes.
struct Message {
  int peer;
  char *data;
  int64_t bytes;
};

/// Exchanges messages, one set at a time. Between two ranks they arrive in the order in which they are sent.
class Transport {
public:
  static constexpr int64_t mostBytes = 1 << 30; // MPI counts in an int

  virtual ~Transport() = default;
  virtual const char *name() const = 0;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Begins to send and receive, at most one message each with each other rank. What was posted before is done.
  virtual Status post(std::span<const Message> sends, std::span<const Message> receives) = 0;
  /// Gets on; whether all that was posted is done. Then its bytes may be used again.
  virtual Result<bool> test() = 0;
  /// The ranks whose messages are not there yet, for messages: "rank 1, rank 3".
  virtual std::string pending() = 0;
  virtual void abort(const std::string &reason) = 0;
  virtual void finish() {}
};

std::unique_ptr<Communicator> makeMessageCommunicator(std::unique_ptr<Transport> transport);

} // namespace scrimp::runtime

#endif
