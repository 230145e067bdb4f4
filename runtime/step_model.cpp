#include <algorithm>
#include <array>
#include <utility>

#include "runtime/prediction.h"

namespace l2l::runtime {

VisitCost StepModel::sum() const {
  VisitCost total;
  for (const VisitCost& visit : visits) {
    total.compute = total.compute + visit.compute;
    total.h2d = total.h2d + visit.h2d;
    total.d2h = total.d2h + visit.d2h;
    total.update = total.update + visit.update;
  }
  return total;
}

// The ends' own parts are counted by ends().
double StepModel::hidden_part(std::size_t visit) const {
  const VisitCost& cost = visits[visit];
  const bool first = visit == 0, last = visit + 1 == visits.size();
  const double next_update = held && !last ? visits[visit + 1].update.seconds : 0;
  return std::max({cost.compute.seconds, first ? 0 : cost.h2d.seconds, last ? 0 : cost.d2h.seconds, next_update});
}

double StepModel::ends() const {
  const double update = held ? visits.front().update.seconds : visits.back().update.seconds;
  return visits.front().h2d.seconds + visits.back().d2h.seconds + update;
}

double StepModel::overlapped() const {
  double seconds = ends();
  for (std::size_t i = 0; i < visits.size(); ++i) seconds += hidden_part(i);
  return seconds;
}

// What is reckoned or computed elsewhere takes hardly any of our threads' time.
bool StepModel::shares() const {
  const Cost compute = sum().compute;
  return compute.processor > 0.5 * compute.seconds;
}

double StepModel::shared() const {
  const VisitCost total = sum();
  return total.compute.seconds + (total.h2d + total.d2h + total.update).processor / cores +
         static_cast<double>(visits.size()) * hand_over;
}

double StepModel::step_seconds() const {
  const VisitCost total = sum();
  const double longest = std::max({total.h2d.seconds, total.d2h.seconds, total.update.seconds, overlapped()});
  return shares() ? std::max(longest, shared()) : longest;
}

std::string StepModel::bound() const {
  const VisitCost total = sum();
  const std::array<std::pair<double, const char*>, 4> resources = {{{total.compute.seconds, "device compute"},
                                                                    {total.h2d.seconds, "link to the device"},
                                                                    {total.d2h.seconds, "link to the host"},
                                                                    {total.update.seconds, "parameter server"}}};
  return std::max_element(resources.begin(), resources.end())->second;
}

}  // namespace l2l::runtime
