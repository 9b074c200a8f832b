// Begins with all pictures of the page that have data to play with.

(() => {
  "use strict";

  const { TilingPlayer, SchedulePlayer, DescriptorPlayer } = window.gemmLadder;
  const playerOf = (data) => (data.schedules ? SchedulePlayer : data.threads ? DescriptorPlayer : TilingPlayer);
  const start = () => {
    for (const figure of document.querySelectorAll(".figure[data-play]")) {
      const data = window.gemmLadderPlay?.[figure.dataset.play];
      if (data) new (playerOf(data))(figure, data);
    }
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
