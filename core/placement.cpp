#include "core/placement.h"

#include <algorithm>

namespace l2l {
namespace {

// A node's cores without the feeder's.
struct Room {
  int node = 0;
  std::vector<Core> cores;
  int cpus = 0;
  int workers = 0;
};

std::vector<Room> rooms_of(const Topology& topology) {
  std::vector<Room> rooms;
  for (const NumaNode& node : topology.nodes) rooms.push_back({node.id, node.cores, node.cpus(), 0});
  return rooms;
}

std::size_t total_cores(const std::vector<Room>& rooms) {
  std::size_t cores = 0;
  for (const Room& room : rooms) cores += room.cores.size();
  return cores;
}

// Puts the device's node first: it is nearest to the data and gets the first worker.
void bring_forward(std::vector<Room>& rooms, int node) {
  const auto place = std::ranges::find(rooms, node, &Room::node);
  if (place != rooms.end()) std::rotate(rooms.begin(), place, place + 1);
}

std::vector<int> take_feeder_core(std::vector<Room>& rooms) {
  Room& room = rooms.front();
  std::vector<int> cpus = std::move(room.cores.front().cpus);
  room.cores.erase(room.cores.begin());
  room.cpus -= static_cast<int>(cpus.size());
  return cpus;
}

// Gives one worker at a time to the node with the most CPUs per worker.
void spread(std::vector<Room>& rooms, int workers) {
  const auto fuller = [](const Room& a, const Room& b) {
    const auto load = [](const Room& room, const Room& other) {
      return static_cast<std::int64_t>(room.workers + 1) * other.cpus;
    };
    if ((a.cpus == 0) != (b.cpus == 0)) return a.cpus == 0;
    return load(a, b) > load(b, a);
  };
  for (int i = 0; i < workers; ++i) {
    Room* emptiest = &rooms.front();
    for (Room& room : rooms) {
      if (fuller(*emptiest, room)) emptiest = &room;
    }
    ++emptiest->workers;
  }
}

std::vector<int> cpus_for(const Room& room) {
  const bool one_per_core = room.workers <= static_cast<int>(room.cores.size());
  std::vector<int> cpus;
  for (const Core& core : room.cores) {
    cpus.insert(cpus.end(), core.cpus.begin(), one_per_core ? core.cpus.begin() + 1 : core.cpus.end());
  }
  std::ranges::sort(cpus);
  return cpus;
}

std::string count(int number, const std::string& what) {
  return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
}

// "CPU 5", "CPUs 0-3, 8"
std::string cpu_list(const std::vector<int>& cpus) {
  std::string text = cpus.size() == 1 ? "CPU " : "CPUs ";
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    text += (i > 0 ? ", " : "") + std::to_string(cpus[i]);
    if (last > i) text += "-" + std::to_string(cpus[last]);
    i = last + 1;
  }
  return text;
}

std::string where(const WorkerLane& lane) {
  return "on node " + std::to_string(lane.node) + " (" + cpu_list(lane.cpus) + ")";
}

}  // namespace

int Placement::workers() const {
  int workers = 0;
  for (const WorkerLane& lane : lanes) workers += lane.workers;
  return workers;
}

Placement place_workers(const Topology& topology, const PlacementRequest& request) {
  Placement placement;
  placement.limit = topology.limit;
  placement.ours = topology.ours;
  std::vector<Room> rooms = rooms_of(topology);
  bring_forward(rooms, request.device_node);
  int usable = std::min(topology.limit, topology.cpus());
  if (request.feeds_device && usable >= 2 && total_cores(rooms) >= 2) {
    placement.feeder = take_feeder_core(rooms);
    int left = 0;
    for (const Room& room : rooms) left += room.cpus;
    usable = std::min(usable - 1, left);
  }
  spread(rooms, request.threads > 0 ? request.threads : std::max(1, usable));
  placement.bound = topology.ours && (topology.nodes.size() > 1 || !placement.feeder.empty());
  std::ranges::sort(rooms, {}, &Room::node);
  for (const Room& room : rooms) {
    if (room.workers > 0) placement.lanes.push_back({room.node, room.workers, cpus_for(room)});
  }
  return placement;
}

std::string describe(const Placement& placement) {
  std::string text = count(placement.workers(), "worker");
  if (placement.lanes.size() == 1) text += " " + where(placement.lanes.front());
  for (std::size_t i = 0; placement.lanes.size() > 1 && i < placement.lanes.size(); ++i) {
    const WorkerLane& lane = placement.lanes[i];
    text += (i == 0 ? ": " : ", ") + std::to_string(lane.workers) + " " + where(lane);
  }
  if (!placement.feeder.empty()) text += "; core of " + cpu_list(placement.feeder) + " feeds the device";
  if (placement.workers() > placement.limit) {
    text += "; more than the " + count(placement.limit, "core") + " that this process may use";
  }
  if (!placement.ours) text += "; nodes of another machine (HWLOC_XMLFILE): nobody is bound";
  return text;
}

}  // namespace l2l
